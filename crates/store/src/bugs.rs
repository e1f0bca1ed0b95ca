//! Deliberate bugs, to see that the simulator finds them. In a build without the feature `deliberate-bugs`, which is every
//! build but that one test's, no bug is ever on and the compiler leaves its code out.

#[cfg(feature = "deliberate-bugs")]
static ON: std::sync::Mutex<&str> = std::sync::Mutex::new("");

/// Switches one bug on, and all others off.
#[cfg(feature = "deliberate-bugs")]
pub fn switch(name: &'static str) {
    *ON.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = name;
}

/// Whether the bug is on.
#[cfg(feature = "deliberate-bugs")]
pub fn on(name: &str) -> bool {
    *ON.lock().unwrap_or_else(std::sync::PoisonError::into_inner) == name
}

/// Whether the bug is on: never.
#[cfg(not(feature = "deliberate-bugs"))]
#[inline(always)]
pub const fn on(_: &str) -> bool {
    false
}
