//! CLUSTER and its relatives: this engine is a single node without a cluster and reports that.

use crate::ctx::Ctx;
use crate::error::{Done, Error};
use crate::resp::Reply;

pub(super) fn disabled(_: &mut Ctx<'_>, _: &[&[u8]], _: &mut Reply) -> Done {
    Err(Error::fixed("ERR This instance has cluster support disabled"))
}
