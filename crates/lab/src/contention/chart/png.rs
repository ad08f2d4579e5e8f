//! A picture in pixels.

use std::io;
use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

/// Servers often have no fonts at all, so that the letters come along: those that are used, of `DejaVu Sans`.
const LETTERS: &[u8] = include_bytes!("../../../font/DejaVuSans-subset.ttf");
const FAMILY: &str = "DejaVu Sans";

/// For screens with small pixels.
const SCALE: f32 = 1.5;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(LETTERS.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    Arc::new(fonts)
});

/// The picture as PNG.
pub fn png(svg: &str) -> io::Result<Vec<u8>> {
    let options = Options { font_family: FAMILY.to_owned(), fontdb: FONTS.clone(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(io::Error::other)?;
    let size = tree.size().to_int_size().scale_by(SCALE);
    let pixels = size.and_then(|size| Pixmap::new(size.width(), size.height()));
    let mut pixels = pixels.ok_or_else(|| io::Error::other("the picture has no size"))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(io::Error::other)
}
