//! The templates that this daemon knows. First ready runs once per key: whoever else asks
//! for the same key meanwhile waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use innkeeper_proto::v1::TemplateSpec;
use tokio::sync::OnceCell;

use super::{Template, TemplateError, stored};
use crate::sandbox::Machine;

type Cell = Arc<OnceCell<Arc<Template>>>;

/// Templates by key.
#[derive(Debug, Default)]
pub struct Templates(Mutex<HashMap<String, Cell>>);

impl Templates {
    fn cell(&self, key: &str) -> Cell {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(cells.entry(key.to_owned()).or_default())
    }

    /// The template of this key: known, read from the store, or else made by `make`, which
    /// runs once however many ask. A failed `make` may be tried again by the next.
    ///
    /// # Errors
    /// Of `make`; [`TemplateError::NotPrepared`] where it is none.
    pub async fn get_or_make<F>(
        &self,
        machine: &Machine,
        spec: &TemplateSpec,
        make: Option<F>,
    ) -> Result<Arc<Template>, TemplateError>
    where
        F: AsyncFnOnce() -> Result<Template, TemplateError>,
    {
        let cell = self.cell(&spec.key);
        let template = cell
            .get_or_try_init(async || {
                if let Some(template) = stored::read(machine, spec) {
                    return Ok(Arc::new(template));
                }
                match make {
                    Some(make) => make().await.map(Arc::new),
                    None => Err(TemplateError::NotPrepared {
                        key: spec.key.clone(),
                    }),
                }
            })
            .await?;
        Ok(Arc::clone(template))
    }
}
