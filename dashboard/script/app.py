"""What Streamlit runs where the package is installed. It stands alone in its folder, which Streamlit puts first on the
path of imports: no file of the dashboard may hide a module of another name."""

from __future__ import annotations

from dashboard import main

main.run()
