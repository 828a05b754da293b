"""What Streamlit runs where the package is installed; as `app.py` of a checkout. It stands alone in its folder, which
Streamlit puts first on the path of imports: no file of the dashboard may hide a module of another name."""

from __future__ import annotations

if __name__ == "__main__":  # Streamlit runs this file whenever a visitor's page is drawn,
    from dashboard import main

    main.run()
else:  # and imports it once, as the server starts.
    from starlette.middleware import Middleware
    from streamlit.starlette import App

    from dashboard.addresses import ROUTES, announced
    from dashboard.bundles import Bundles
    from dashboard.guard import Guard

    app = App(__file__, routes=ROUTES, middleware=[Middleware(Guard), Middleware(Bundles)], lifespan=announced)
