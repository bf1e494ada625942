"""An example plugin: a sampler that logs how sure the model was of each token."""
