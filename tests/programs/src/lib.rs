//! Real programs on `RastAlloc`: the tests hold them all.
