import torch
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction


def rows(n=100):
    return torch.randn(6, n, device="cuda", requires_grad=True)


def weight(n=100):
    return torch.randn(n, device="cuda", requires_grad=True)


def test_rms_norm():
    x, w = rows(), weight()
    y = LigerRMSNormFunction.apply(x, w, 1e-6)
    y.sum().backward()
    return y, x.grad, w.grad


def test_swiglu():
    a, b = rows(), rows()
    LigerSiLUMulFunction.apply(a, b).sum().backward()
    return a.grad, b.grad


def test_softmax():
    x = rows()
    LigerSoftmaxFunction.apply(x).square().sum().backward()
    return x.grad


def test_layer_norm():
    x, w, b = rows(), weight(), weight()
    y = LigerLayerNormFunction.apply(x, w, b, 1e-6)
    y.square().sum().backward()
    return y, x.grad, w.grad


def test_all():
    test_rms_norm()
    test_swiglu()
    test_softmax()
    test_layer_norm()
