"""The one script that Streamlit is given where the package is installed."""
