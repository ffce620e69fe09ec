"""Features of a layer as explanations: sparse autoencoders, and the encoders that they must be compared with."""

from veracity.explain.sparse.activations import Activations, read_layers
from veracity.explain.sparse.encoders import Encoder, EncoderObject, LinearEncoder, RawActivations, as_encoder
from veracity.explain.sparse.examples import top_features
from veracity.explain.sparse.features import (
    SparseFeatures,
    controls_for,
    feature_controls,
    layer_activations,
    pca_encoder,
    random_encoder,
)
