//! Tests of loading and running models, which are built as messages.

mod build; // models in a few lines
mod loading; // checks of a file
mod running; // shapes, branches, loops
