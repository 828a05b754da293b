"""Profiles from measured tables: reading them, choosing points, fitting, and the error on the rows that are left."""
