"""Buy honest answers to sensitive questions, fit a linear model, reveal nobody, pay everybody fairly."""

__version__ = "0.1.0"
