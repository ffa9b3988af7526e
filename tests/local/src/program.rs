//! The daemon's program.

/// Whether execd runs in any image's root, or what is to be done.
///
/// # Errors
/// A sentence, where it was linked with the libraries of this machine.
pub fn static_execd() -> Result<(), String> {
    let path = innkeeper_test_cli::binaries()?.join("execd");
    let program = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    // The program header that names a loader stands within the first page.
    let first = &program[..program.len().min(4096)];
    let loader = b"/ld-";
    if first.windows(loader.len()).any(|bytes| bytes == loader) {
        return Err(format!(
            "{} is linked dynamically and cannot run in an image's root: build it as make test does",
            path.display()
        ));
    }
    Ok(())
}
