"""Predicted time: costs of instructions, their schedule on the engines, and the report of it."""

# the formulas register themselves
from trnsim.timing import communication as communication, compute as compute
from trnsim.timing.profile import profile
from trnsim.timing.report import Report

__all__ = ["Report", "profile"]
