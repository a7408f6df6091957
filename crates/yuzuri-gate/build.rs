//! Compiles the gate's BPF programs and derives their Rust skeleton.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=bpf");
    // The names of integers, which all BPF programs of the project share.
    println!("cargo:rerun-if-changed=../yuzuri-kernel/bpf/types.h");
    // Source paths in the compiler's debug information must not name folders of this machine.
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let nameless = format!("-ffile-prefix-map={folder}=.");
    // -mcpu=v3: the first instruction set with compare-and-exchange.
    let built = SkeletonBuilder::new()
        .source("bpf/gate.bpf.c")
        .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-Ibpf", "-I../yuzuri-kernel/bpf", &nameless])
        .build_and_generate(out.join("gate.skel.rs"));
    if let Err(error) = built {
        panic!("compiling bpf/gate.bpf.c: {error:?}\nIt needs clang: `make setup` installs it.");
    }
}
