//! Explains what to do if the page has not been built: `rust-embed` would only report a missing
//! folder.

use std::fs::File;
use std::io;
use std::path::Path;

/// The number of a file descriptor: the read end of a pipe whose writers build the page.
/// `scripts/demo-build.sh` sets it, so that all other crates are compiled meanwhile.
const PAGE_PIPE: &str = "YUZURI_PAGE_PIPE";

fn main() {
    println!("cargo:rerun-if-changed=ui/dist");
    if let Some(number) = std::env::var_os(PAGE_PIPE) {
        let pipe = Path::new("/proc/self/fd").join(number);
        // Ends when the write end is closed everywhere.
        let waited = File::open(&pipe).and_then(|mut pipe| io::copy(&mut pipe, &mut io::sink()));
        if let Err(error) = waited {
            println!("cargo:warning=waiting for the page at {} ({PAGE_PIPE}): {error}", pipe.display());
        }
    }
    for file in ["index.html.gz", "app.js.gz", "app.css.gz"] {
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
