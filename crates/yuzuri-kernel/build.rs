//! Compiles the BPF programs and derives their Rust skeletons.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=bpf");
    // Source paths in the compiler's debug information must not name folders of this machine.
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let nameless = format!("-ffile-prefix-map={folder}=.");
    for name in ["before_5_7", "clock", "control", "monitor", "probe", "steer"] {
        // -mcpu=v3: the first instruction set with atomic fetch operations.
        let built = SkeletonBuilder::new()
            .source(format!("bpf/{name}.bpf.c"))
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-Ibpf", &nameless])
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            panic!("compiling bpf/{name}.bpf.c: {error:?}\nIt needs clang: `make setup` installs it.");
        }
    }
}
