"""Trains a small transformer to repeat a sequence, with PyTorch's SDPA or with an exported kernel for attention.

  python3 train_transformer.py sdpa
  python3 train_transformer.py flashcore_v12.py      # of fa-tui export flashcore_v12 --set BF16=1 --torch …

Both use the same seed, weights and data, so their losses differ only by rounding. Prints one JSON object.
"""

import importlib.util
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

VOCABULARY, LENGTH, BATCH = 64, 256, 16
LAYERS, HEADS, KV_HEADS, HEAD_DIM = 2, 4, 2, 64
WIDTH = HEADS * HEAD_DIM


def sdpa(q, k, v):
    """Causal attention of q, k and v as [B, H, S, D]; two heads of q share one of k and v."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def exported(path):
    """The same with an exported kernel, whose module also provides gradients."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda q, k, v: module.attention(q, k, v, causal=True)


class Block(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.query = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.keys = torch.nn.Linear(WIDTH, 2 * KV_HEADS * HEAD_DIM, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.before(x)
        q = heads_first(self.query(y), HEADS)
        k, v = (heads_first(each, KV_HEADS) for each in self.keys(y).chunk(2, -1))
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


def heads_first(x, heads):
    return x.unflatten(-1, (heads, HEAD_DIM)).transpose(1, 2).contiguous()


class Model(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.places = torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.Sequential(*(Block(attention) for _ in range(LAYERS)))
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def sequences(generator, device):
    """Sequences whose first half is random and whose second half repeats it."""
    half = torch.randint(VOCABULARY, (BATCH, LENGTH // 2), generator=generator)
    return torch.cat([half, half], 1).to(device)


def train(attention, steps=400, device="cuda"):
    """The loss of each step over the repeated half, and the seconds per step."""
    torch.manual_seed(7)
    model = Model(attention).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(7)
    losses = []
    began = time.perf_counter()
    for step in range(steps):
        tokens = sequences(generator, device)
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(tokens[:, :-1])
        half = LENGTH // 2 - 1
        loss = F.cross_entropy(logits[:, half:].flatten(0, 1).float(), tokens[:, half + 1 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    return {"losses": losses, "ms_a_step": (time.perf_counter() - began) * 1e3 / steps}


if __name__ == "__main__":
    print(json.dumps(train(sdpa if sys.argv[1] == "sdpa" else exported(sys.argv[1]))))
