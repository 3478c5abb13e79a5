"""One module per dataset format: what a file holds → arrays that several models share."""
