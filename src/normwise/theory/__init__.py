"""Pure functions of arrays: ranking metrics, exact search, intervals, geometry, decisions. No torch."""
