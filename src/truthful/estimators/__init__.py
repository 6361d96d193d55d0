"""Estimate: least squares, and the four private estimators with their sensitivities."""
