"""Loops in, kernels out: which loop nodes become one kernel, in what order, in which memory."""

from .nodes import Domain, ExternSchedulerNode, FusedSchedulerNode, Group, SchedulerNode
from .schedule import Schedule, schedule

__all__ = ["Domain", "ExternSchedulerNode", "FusedSchedulerNode", "Group", "Schedule", "SchedulerNode", "schedule"]
