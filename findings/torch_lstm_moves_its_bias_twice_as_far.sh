#!/usr/bin/env bash
# An LSTM of Keras on torch and a torch.nn.LSTM with the same weights, trained with the same torch optimizer on the same batch.
#
# Expected: equal outputs and gradients, so equal training up to rounding.
# What happens: torch.nn.LSTM has two biases, whose sum Keras's one bias is. Each of them gets the whole gradient, so the sum moves
#   twice as far: exactly with SGD, and with Adam too, whose step does not depend on the size of a gradient. The losses
#   part by 2 % within 20 steps.
# Versions: keras 3.15.1, torch 2.13.0 (its CPU build is enough). Python 3.11.
# Seen on 2026-11-29: first loss equal to 1e-07; step of the sum of biases, relative to Keras's: SGD 2.000, Adam 2.000;
#   losses of 20 steps differ by up to 2e-02; with one bias frozen by 1e-07.
# Why it matters: a model that is converted for a comparison starts as the same function and has another learning rate for its bias;
#   freezing one of the two biases removes the difference.
set -euo pipefail
command -v python3.11 > /dev/null || { echo "this needs python3.11"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1 KERAS_BACKEND=torch CUDA_VISIBLE_DEVICES=

cat > "$folder/biases.py" <<'PY'
import sys

import keras
import numpy as np
import torch

stream = np.random.default_rng(0)
x = torch.tensor(stream.normal(size=(16, 12, 3)).astype("float32"))
y = torch.tensor(stream.normal(size=(16, 8)).astype("float32"))
weights = [stream.uniform(-0.5, 0.5, shape).astype("float32") for shape in ((3, 32), (8, 32), (32,))]


def of_keras():
    layer = keras.layers.LSTM(8)
    layer.build(x.shape)
    layer.set_weights(weights)
    kernel, recurrent, bias = (variable.value for variable in layer.trainable_variables)
    return lambda: layer(x), [kernel, recurrent, bias], lambda: bias


def of_torch(both_trained):
    """torch.nn.LSTM: both order their gates as input, forget, cell, output."""
    layer = torch.nn.LSTM(3, 8, batch_first=True)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.tensor(weights[0].T.copy()))
        layer.weight_hh_l0.copy_(torch.tensor(weights[1].T.copy()))
        layer.bias_ih_l0.copy_(torch.tensor(weights[2]))
        layer.bias_hh_l0.zero_()
    layer.bias_hh_l0.requires_grad_(both_trained)
    parameters = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    return lambda: layer(x)[0][:, -1], parameters, lambda: layer.bias_ih_l0 + layer.bias_hh_l0


def train(model, optimizer):
    """Losses of 20 steps, and how far the (sum of the) bias moved in the first."""
    call, parameters, bias = model
    optimizer, losses = optimizer(parameters), []
    for step in range(20):
        optimizer.zero_grad()
        loss = torch.mean((call() - y) ** 2)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 0:
            moved = bias().detach().numpy() - weights[2]
    return np.array(losses), moved


for name, optimizer in (
    ("SGD", lambda parameters: torch.optim.SGD(parameters, 0.5)),
    ("Adam", lambda parameters: torch.optim.Adam(parameters, 0.01)),
):
    losses, moved = train(of_keras(), optimizer)
    for both in (True, False):
        own, own_moved = train(of_torch(both), optimizer)
        ratio = float(np.median(own_moved / moved))
        apart = np.abs(own / losses - 1)
        print(name, "two biases" if both else "one bias", f"first loss {apart[0]:.0e}, bias {ratio:.3f}, later {apart.max():.0e}")
        right = abs(ratio - 2) < 0.01 and apart.max() > 5e-3 if both else abs(ratio - 1) < 0.01 and apart.max() < 1e-5
        if apart[0] > 1e-6 or not right:
            sys.exit("differs from the header")
PY

python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q 'keras==3.15.1' 'torch==2.13.0'
"$folder/venv/bin/python" -W ignore "$folder/biases.py"
