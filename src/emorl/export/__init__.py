"""Export: a trained model as one file that runs without this package, in ONNX runtimes or in plain PyTorch."""
