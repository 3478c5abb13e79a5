"""Record → MLflow: a mirror for browsing, which the records can fill again at any time."""
