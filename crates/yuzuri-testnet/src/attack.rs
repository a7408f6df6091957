//! What was tried against the programs, for the table of docs/attacks.md.

/// Tells of an attack that a test has made and the program has withstood: to be called once that is certain, at the test's end.
///
/// `make attacks` gathers these lines from the tests' output, adds up those of one name, `of` and `outcome`, and prints a table. `of` is what
/// was tried (`"replayed messages"`), `outcome` what was lost (`"none believed"`).
pub fn attack(name: &str, tried: u64, of: &str, outcome: &str) {
    debug_assert!(![name, of, outcome].iter().any(|text| text.contains(['|', '\n'])), "the line has columns");
    println!("attack: {name} | {tried} {of} | {outcome}");
}
