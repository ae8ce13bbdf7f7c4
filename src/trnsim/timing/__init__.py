"""Predicted time: costs of instructions, their schedule on the engines, and the report of it."""

from trnsim.timing.profile import profile
from trnsim.timing.report import Report

__all__ = ["Report", "profile"]
