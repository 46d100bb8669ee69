//! Attempts, for bounds that a busy host exceeds now and then.

/// Makes attempts until one is within its bounds, and returns its result. Prints why the others were not. A defect is in each attempt, and
/// fails the test.
pub(crate) fn one_of<T>(attempts: u32, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let mut last = String::new();
    for number in 1..=attempts {
        match attempt() {
            Ok(result) => return result,
            Err(why) => {
                println!("attempt {number} of {attempts}: {why}");
                last = why;
            }
        }
    }
    panic!("no attempt of {attempts} is within its bounds, the last: {last}")
}
