"""Trains a small transformer to repeat a sequence, once with PyTorch's SDPA and once with an exported kernel.

  fa-tui export flashcore_v12 --set BF16=1 --set WRITE_LSE=1 --backward examples/kernels/backward_hopper \\
    --backward-set BF16=1 --torch flashcore_v12.py
  python3 train_transformer.py flashcore_v12.py

A model takes the kernel by one import: `from flashcore_v12 import flash_attn_func`. Both runs have the same seed,
weights and data, so their losses differ only by rounding. Prints one line of JSON, and exits with 1 if the exported
kernel learned less: { device, losses: { NAME: every 25th }, last_loss: { NAME: mean of 20 }, ms_a_step: { NAME } }.
"""

import dataclasses
import importlib.util
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F


@dataclasses.dataclass
class Size:
    vocabulary: int = 64
    length: int = 256
    batch: int = 16
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64

    @property
    def width(self):
        return self.heads * self.head_dim


def sdpa(q, k, v, causal=False):
    """flash_attn_func with SDPA. q and the result are [B, S, H, D], k and v are [B, S, Hkv, D]."""
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True).transpose(1, 2)


def exported(path):
    """flash_attn_func of an exported file at any path. In a model, an import is enough."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.flash_attn_func


class Block(torch.nn.Module):
    def __init__(self, size, flash_attn_func):
        super().__init__()
        self.size, self.flash_attn_func = size, flash_attn_func
        width = size.width
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.query = torch.nn.Linear(width, width, bias=False)
        self.keys = torch.nn.Linear(width, 2 * size.kv_heads * size.head_dim, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.before(x)
        q, k, v = (each.unflatten(-1, (-1, self.size.head_dim)) for each in (self.query(y), *self.keys(y).chunk(2, -1)))
        x = x + self.out(self.flash_attn_func(q, k, v, causal=True).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Model(torch.nn.Module):
    def __init__(self, size, flash_attn_func):
        super().__init__()
        self.tokens = torch.nn.Embedding(size.vocabulary, size.width)
        self.places = torch.nn.Embedding(size.length, size.width)
        self.blocks = torch.nn.Sequential(*(Block(size, flash_attn_func) for _ in range(size.layers)))
        self.norm, self.head = torch.nn.LayerNorm(size.width), torch.nn.Linear(size.width, size.vocabulary)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def sequences(size, generator, device):
    """Sequences whose first half is random and whose second half repeats it."""
    half = torch.randint(size.vocabulary, (size.batch, size.length // 2), generator=generator)
    return torch.cat([half, half], 1).to(device)


def train(flash_attn_func, size=Size(), steps=400, warmup=10, device="cuda"):
    """Trains. Returns the loss of each step over the repeated half, and the milliseconds per step after the warm-up."""
    torch.manual_seed(7)
    model = Model(size, flash_attn_func).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(7)
    losses = []
    for step in range(steps):
        if step == warmup:
            finish(device)
            began = time.perf_counter()
        tokens = sequences(size, generator, device)
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
        half = size.length // 2 - 1
        loss = F.cross_entropy(logits[:, half:].flatten(0, 1).float(), tokens[:, half + 1 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    finish(device)
    seconds = time.perf_counter() - began
    return {"losses": torch.stack(losses).tolist(), "ms_a_step": seconds * 1e3 / (steps - warmup)}


def finish(device):
    if device == "cuda":
        torch.cuda.synchronize()


def compared(arms):
    """Compares the runs with SDPA's, as one object."""
    last = {name: statistics.mean(each["losses"][-20:]) for name, each in arms.items()}
    first = arms["sdpa"]["losses"][0]
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "torch": torch.__version__,
        "losses": {name: each["losses"][::25] for name, each in arms.items()},
        "last_loss": last,
        "ms_a_step": {name: round(each["ms_a_step"], 3) for name, each in arms.items()},
        # Rounding alone makes losses differ by a few hundredths while they fall, and by less at the end.
        "same": all(
            abs(each["losses"][0] - first) < 0.02 and abs(last[name] - last["sdpa"]) < 0.03
            for name, each in arms.items()
        ),
        "learned": all(each < 0.9 * first for each in last.values()),
    }


if __name__ == "__main__":
    found = compared({"sdpa": train(sdpa), "exported": train(exported(sys.argv[1]))})
    print(json.dumps(found))
    sys.exit(0 if found["same"] and found["learned"] else 1)
