//! The patch into the tree: the harness's attempts, in its order.

use innkeeper_grading::apply::{ATTEMPTS, CHECK_APPLIED, PATCH_FILE, RESTORE};
use innkeeper_grading::{decode_output, markers};

use super::account::Account;
use super::outcome::Broken;
use super::sandbox::Sandbox;

/// Applies the patch, or says why it does not apply.
pub(super) async fn apply(
    sandbox: &mut Sandbox,
    patch: &str,
    account: &mut Account,
) -> Result<(), Broken> {
    sandbox.write(PATCH_FILE, patch.as_bytes()).await?;
    let mut said = String::new();
    for (number, attempt) in ATTEMPTS.iter().enumerate() {
        if number > 0 {
            sandbox.command(&RESTORE).await?;
        }
        let tried = sandbox.command(attempt).await?;
        said = decode_output(&tried.stdout).into_owned();
        if tried.code() == 0 {
            account.info(format!("{}:\n{said}", markers::APPLY_PASS));
            return Ok(());
        }
        let without_file = attempt[..attempt.len() - 1].join(" ");
        account.info(format!(
            "Failed to apply patch to container: {without_file}"
        ));
    }
    if sandbox.command(&CHECK_APPLIED).await?.code() == 0 {
        account.info(format!("{}: verified already applied", markers::APPLY_PASS));
        return Ok(());
    }
    account.info(format!("{}:\n{said}", markers::APPLY_FAIL));
    Err(Broken::PatchDoesNotApply)
}
