"""Names of kernels that are not Triton's, as a person recognises them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritonforge.report.symbols import short_name


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
         "vectorized_elementwise_kernel<CUDAFunctor_add>"),
        ("_ZN2at6native43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6322cunn_SoftMaxForwardRegIfffNS1_8EpilogueElLi4EEEvT_",
         "cunn_SoftMaxForwardReg<Epilogue>"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>, F>(int)",
         "multi_tensor_apply_kernel"),
        ("nvjet_hsh_128x128_64x6_1x2_h_bz_coopA_NNT", "nvjet_hsh_128x128_64x6_1x2_h_bz_coopA_NNT"),
        ("Memcpy HtoD", "Memcpy HtoD"),
        ("_Z5saxpyfPfS_", "saxpy"),
        ("_Z", "_Z"),
        ("_Z999x", "_Z999x"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_mangled_name_is_shortened_to_the_function_and_what_it_is_for(name, short):
    assert short_name(name) == short


@settings(max_examples=60, deadline=None)
@given(st.text() | st.text("_ZN0123456789abLiES").map(lambda tail: "_Z" + tail))
def test_any_text_has_a_short_name(name):
    assert len(short_name(name)) <= 2 * len(name) + 2
