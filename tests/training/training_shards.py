"""A script for two processes: a model cut into shards is saved whole, and goes on from there as if never stopped."""

import sys
from pathlib import Path
from unittest.mock import Mock

import torch
import torch.distributed as dist
from lightning_fabric.strategies.fsdp import FSDPStrategy
from torch.distributed.fsdp import fully_shard
from training_toy import Model, Toy

from regard.training import checkpoint, fsdp
from regard.training.ema import EMA

folder = Path(sys.argv[1])
fabric = Mock(strategy=Mock(spec=FSDPStrategy))  # Fabric itself takes FSDP on GPUs only


def make():
    torch.manual_seed(3)
    model = Model()
    fully_shard(model.hidden)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def step(model, optimizer, number):
    task = Toy()
    loss = task.loss(model, task.batch(task.plan(0)[number], 0))["label"].sum
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


dist.init_process_group("gloo")
assert fsdp.is_sharded(fabric)
model, optimizer = make()
step(model, optimizer, 0)
weights = fsdp.full_weights(fabric, model)
states = fsdp.full_optimizer_states(fabric, model, [optimizer])
if dist.get_rank() == 0:
    assert weights["hidden.weight"].shape == (17, 17)
    checkpoint.save_checkpoint(folder, checkpoint.Checkpoint(weights, states, [], {"step": 1}))
dist.barrier()
other, its = make()
step(other, its, 4)
path = checkpoint.find_latest_checkpoint(folder)
assert path is not None
fsdp.restore_checkpoint(fabric, other, [its], checkpoint.load_checkpoint(path))
for number in (1, 2):
    assert step(model, optimizer, number) == step(other, its, number)
average = EMA(list(model.parameters()), 0.9)
seen = []
for number in (3, 4):
    step(model, optimizer, number)
    average.update()
    seen.append(fsdp.full_weights(fabric, model))
with average.average_parameters():
    averaged = fsdp.full_weights(fabric, model)
if dist.get_rank() == 0:
    for name, value in averaged.items():
        torch.testing.assert_close(value, (0.9 * seen[0][name] + seen[1][name]) / 1.9)
dist.barrier()
dist.destroy_process_group()
print("same")
