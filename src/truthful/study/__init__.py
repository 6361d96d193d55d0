"""Declare: a study file, its maps between raw and normalised units, and the law of its features."""

from truthful.study.study import Study, template, write_template

__all__ = ["Study", "template", "write_template"]
