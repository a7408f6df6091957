//! Records the attacks that tests carry out, for the table in docs/attacks.md.

/// Reports an attack that a test has carried out and that the program has withstood. Call it at the
/// end of the test, once that is certain.
///
/// `make attacks` collects these lines from the test output, adds up those with the same name, `of`
/// and `outcome`, and prints a table. `of`: what was tried (`"replayed messages"`); `outcome`: the
/// result (`"none believed"`).
pub fn attack(name: &str, tried: u64, of: &str, outcome: &str) {
    debug_assert!(![name, of, outcome].iter().any(|text| text.contains(['|', '\n'])), "the line has columns");
    println!("attack: {name} | {tried} {of} | {outcome}");
}
