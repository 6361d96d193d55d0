"""Declare: a study file, its maps between raw and normalised units, and the distribution of its features."""

from truthful.study.sections import few_values
from truthful.study.study import Study, template, write_template

__all__ = ["Study", "few_values", "template", "write_template"]
