"""Where code that a model wrote runs."""
