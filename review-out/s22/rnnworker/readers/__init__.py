"""The formats of data sets: functions that convert a file to arrays for several models."""
