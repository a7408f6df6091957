//! Explains what to do if the script of the page has not been built.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=../yuzuri-web/ui/dist-report");
    for file in ["report.js", "report.css"] {
        if !Path::new("../yuzuri-web/ui/dist-report").join(file).is_file() {
            eprintln!(
                "error: crates/yuzuri-web/ui/dist-report/{file} is missing, which reports need to zoom: run `make ui` (needs node 18 or newer and npm), then build again"
            );
            std::process::exit(1);
        }
    }
}
