"""Views of what the compiler does. `store` and `text` need nothing but the toolkit; `panel` needs ipywidgets and anywidget."""
