// This module re-exports the model, because its API uses the model's types.
@_exported public import Connectivity
