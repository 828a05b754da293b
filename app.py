"""`streamlit run app.py`: the dashboard from a checkout."""

from __future__ import annotations

from dashboard import main

main.run()
