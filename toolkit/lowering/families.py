"""Importing this fills the rule table."""

from . import pointwise, reduction, view

FAMILIES = (pointwise, view, reduction)
