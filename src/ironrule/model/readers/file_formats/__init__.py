"""Readers of models that come as files of an exchange format: ONNX trees and linear models, PMML."""
