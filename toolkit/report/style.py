"""The style sheet of a report. Tables and code say their class several times over, to win against JupyterLab's rules for outputs."""

STYLE = """
.fuselab-report{--fr-ink:var(--jp-ui-font-color1,var(--vscode-editor-foreground,#1f2328));--fr-soft:var(--jp-ui-font-color2,
var(--vscode-descriptionForeground,#656d76));--fr-line:color-mix(in srgb,currentColor 16%,transparent);--fr-code:color-mix(in srgb,
currentColor 6%,transparent);--fr-bad:var(--jp-error-color1,#cf222e);--fr-warn:var(--jp-warn-color1,#b35900);
--fr-good:var(--jp-success-color1,#1a7f37);font:13px/1.5 var(--jp-ui-font-family,system-ui,sans-serif);color:var(--fr-ink);
max-width:62rem}
@media (prefers-color-scheme:dark){.fuselab-report{--fr-ink:var(--jp-ui-font-color1,var(--vscode-editor-foreground,#e6edf3));
--fr-soft:var(--jp-ui-font-color2,var(--vscode-descriptionForeground,#9198a1));--fr-bad:var(--jp-error-color1,#ff7b72);
--fr-warn:var(--jp-warn-color1,#d29922);--fr-good:var(--jp-success-color1,#3fb950)}}
.fuselab-report summary{cursor:pointer;padding:3px 0}
.fuselab-report summary b{font-weight:600}
.fuselab-report>details{border-top:1px solid var(--fr-line)}
.fuselab-report>details>:last-child{margin-bottom:10px}
.fuselab-report>details.fr-glance{border-top:0}
.fuselab-report .fr-inside{padding-left:16px}
.fuselab-report .fr-inside>details{border-top:1px solid var(--fr-line)}
.fuselab-report small,.fuselab-report .fr-soft{color:var(--fr-soft);font-size:12px}
.fuselab-report pre,.fuselab-report code{font:12px/1.5 var(--jp-code-font-family,ui-monospace,monospace)}
.fuselab-report.fuselab-report pre{background:var(--fr-code);color:inherit;border-radius:4px;padding:6px 10px;margin:4px 0;
overflow:auto;max-height:30em;white-space:pre}
.fuselab-report.fuselab-report table{border-collapse:collapse;margin:4px 0;font-size:12px;border:0;color:inherit}
.fuselab-report.fuselab-report :is(td,th){text-align:left;padding:2px 16px 2px 0;vertical-align:top;border:0;background:none;
max-width:none}
.fuselab-report.fuselab-report th{font-weight:500;color:var(--fr-soft)}
.fuselab-report.fuselab-report.fuselab-report :is(tr,thead){background:none;border:0;color:inherit}
.fuselab-report.fuselab-report :is(td,th).fr-n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.fuselab-report ul{margin:2px 0;padding-left:18px}
.fuselab-report .fr-bad{color:var(--fr-bad)}
.fuselab-report .fr-warn{color:var(--fr-warn)}
.fuselab-report .fr-good{color:var(--fr-good)}
.fuselab-report p{margin:2px 0 6px}
.fuselab-report .fr-break{margin:4px 0 10px;border-left:3px solid var(--fr-warn);padding-left:10px}
.fuselab-report.fuselab-report.fuselab-report code{background:none;padding:0;color:inherit}
""".replace("\n", "")
