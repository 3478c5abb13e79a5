"""Records → MLflow: a copy for browsing, which can be rebuilt from the records at any time."""
