//! `interlock serve`: the server, until it is told to stop.

use crate::config::ServeConfig;
use crate::exit::{Exit, Failure, Result};

pub(crate) async fn run(config: ServeConfig) -> Result<Exit> {
    std::future::ready(config).await;
    Err(Failure::Usage("serve is not wired up yet".to_owned()))
}
