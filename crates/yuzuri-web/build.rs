//! Says what to do when the page has not been built: `rust-embed` would only say that a folder is missing.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=ui/dist");
    for file in ["index.html", "app.js", "app.css"] {
        if !Path::new("ui/dist").join(file).is_file() {
            println!(
                "cargo:warning=the page is not built: crates/yuzuri-web/ui/dist/{file} is missing; run `make ui` (needs node 18 or newer and npm)"
            );
            eprintln!(
                "error: the page is not built: run `make ui` (needs node 18 or newer and npm), then build again"
            );
            std::process::exit(1);
        }
    }
}
