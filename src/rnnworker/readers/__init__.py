"""One module per dataset format, which converts a file to arrays for several models."""
