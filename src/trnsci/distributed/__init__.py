"""Beyond one chip: the same calls on arrays that are sharded over ranks.

``torch.distributed`` is the engine (gloo on CPUs, nccl on GPUs, Neuron's on Trainium) and ``DTensor`` the array. A
public function called with DTensors runs its sharded algorithm; one that has none says so.

| name | what it does |
|---|---|
| `mesh` | arrange the ranks in a grid, starting ``torch.distributed`` unless it runs |
| `shard`, `gather` | shard a tensor over a mesh; gather it |
| `Layout` | a sharded array without its data, to plan with |
| `plan` | work, memory, messages and volume of every rank, and predicted time |
| `propose` | compare meshes for a call, and say which sizes do not pay |
| `sharded` | attach a sharded algorithm to a public function |
| `restartable` | call a function that goes on where it was, when `trnsci launch --restarts` starts again |
| `Team`, `Part` | what such an algorithm is written with |
"""

from trnsci.distributed.arrays import gather as gather, shard as shard
from trnsci.distributed.calls import sharded as sharded
from trnsci.distributed.meshes import mesh as mesh
from trnsci.distributed.parts import (
    Layout as Layout,
    Part as Part,
    chunk as chunk,
    chunks as chunks,
    traffic as traffic,
)
from trnsci.distributed.plans import RankPlan as RankPlan, ShardedPlan as ShardedPlan, plan as plan, propose as propose
from trnsci.distributed.restarts import restartable as restartable
from trnsci.distributed.team import Team as Team
from trnsci.distributed.world import leave as leave
from trnsim.lazy import export as _export

_export(__name__)
