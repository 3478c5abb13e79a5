#!/usr/bin/env bash
# kernelRegularizer, recurrentRegularizer and activityRegularizer of an LSTM, GRU and SimpleRNN in TensorFlow.js, beside a Dense layer.
#
# Expected: fit adds the penalties to the loss and the weights shrink, as with a Dense layer and as in Keras.
# What happens: for Dense, Conv1D and Embedding it does. Recurrent layers take the same arguments, return them from getConfig(), and
#   train without any penalty: the loss is that of the data alone, and weights that only a penalty would move do not move. Inside
#   Bidirectional it is the same. An activityRegularizer raises for Dense, and is accepted and ignored by recurrent layers.
# Versions: @tensorflow/tfjs 4.22.0, Node.js 20. The backend is cpu (plain JavaScript).
# Seen on 2026-11-29: l2 of 0.1, targets equal to the predictions, one step: loss of fit as a part of the penalty, weights moved
#   dense 1.00 true, lstm 0.00 false, gru 0.00 false, simpleRNN 0.00 false, bidirectional 0.00 false
#   activityRegularizer: dense raises, lstm 0.00 false
# Why it matters: a model that is fine-tuned or trained in a browser overfits with the regularization of its original written in it.
set -euo pipefail
command -v npm > /dev/null || { echo "this needs node and npm"; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat > "$folder/penalties.js" <<'JS'
const tf = require('@tensorflow/tfjs');

const l2 = () => tf.regularizers.l2({l2: 0.1});
const weights = layer => layer.getWeights().map(weight => weight.arraySync());
// Glorot weights of any size need no orthogonal matrices, and ones as biases make outputs that are not 0.
const common = {units: 4, biasInitializer: 'ones'};
const recurrent = {...common, recurrentInitializer: 'glorotUniform'};
const matrices = {kernelRegularizer: l2(), recurrentRegularizer: l2()};

// The loss of one step of fit, when the data give none, as a part of the penalty; and whether the weights moved.
async function oneStep(layer, shape, penalty) {
  const model = tf.sequential({layers: [tf.layers.inputLayer({inputShape: shape}), layer]});
  model.compile({optimizer: tf.train.sgd(0.1), loss: 'meanSquaredError'});
  const x = tf.ones([2, ...shape]);
  const y = model.predict(x);
  const before = JSON.stringify(weights(layer));
  const expected = penalty(layer, y);
  const history = await model.fit(x, y, {epochs: 1, verbose: 0});
  return [history.history.loss[0] / expected, JSON.stringify(weights(layer)) !== before];
}

function ofMatrices(layer) {
  const squares = layer.getWeights().filter(weight => weight.rank === 2).map(weight => weight.square().sum().arraySync());
  return 0.1 * squares.reduce((sum, value) => sum + value, 0);
}

const ofOutputs = (layer, y) => 0.1 * y.square().sum().arraySync();

async function main() {
  await tf.setBackend('cpu');
  const steps = [5, 3];
  const found = {
    dense: await oneStep(tf.layers.dense({...common, kernelRegularizer: l2()}), [3], ofMatrices),
  };
  for (const name of ['lstm', 'gru', 'simpleRNN']) {
    found[name] = await oneStep(tf.layers[name]({...recurrent, ...matrices}), steps, ofMatrices);
  }
  const both = tf.layers.bidirectional({layer: tf.layers.lstm({...recurrent, ...matrices}), mergeMode: 'concat'});
  found.bidirectional = await oneStep(both, steps, ofMatrices);
  const active = tf.layers.lstm({...recurrent, activityRegularizer: l2()});
  found['lstm activity'] = await oneStep(active, steps, ofOutputs);
  const config = tf.layers.lstm({...recurrent, ...matrices}).getConfig();
  let right = config.kernelRegularizer !== null && config.recurrentRegularizer !== null;
  let raised = false;
  try {
    await oneStep(tf.layers.dense({...common, activityRegularizer: l2()}), [3], ofOutputs);
  } catch (error) {
    raised = true;
  }
  console.log(`dense activity: raises ${raised}`);
  right = right && raised;
  for (const [name, [part, moved]] of Object.entries(found)) {
    console.log(`${name}: ${part.toFixed(2)} of the penalty, weights moved ${moved}`);
    const isPenalized = name === 'dense';
    right = right && Math.abs(part - (isPenalized ? 1 : 0)) < 0.01 && moved === isPenalized;
  }
  if (!right) {
    console.log('differs from the header');
    process.exit(1);
  }
}

main();
JS

cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder" '@tensorflow/tfjs@4.22.0'
node "$folder/penalties.js" 2> "$folder/err" || { tail -3 "$folder/err"; exit 1; }
