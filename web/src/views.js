// The views of a page, in the order of the navigation.
//
// A view: id (of its link), title, lead (a sentence), render(section, rest of the address, all views). `tables`: whose evidence it shows,
// below what it renders unless it `isWhole`; `none`: why there is nothing to show, if they have no rows, or missing(), "" if there is.
// `notesOf`: the one whose notes stand above the tables.
import {page} from "./data.js";
import {viewOf} from "./links.js";
import {accountingView} from "./views/accounting.js";
import {algorithmsView} from "./views/algorithms.js";
import {answerView} from "./views/answer.js";
import {callersView} from "./views/callers.js";
import {comparedViews, sidesView, verdictView} from "./views/compare.js";
import {copiesView} from "./views/copies.js";
import {countersView} from "./views/counters.js";
import {environmentView} from "./views/environment.js";
import {gpuView} from "./views/gpu.js";
import {kernelsView} from "./views/kernels.js";
import {layersView} from "./views/layers.js";
import {layoutView} from "./views/layout.js";
import {memoryView} from "./views/memory.js";
import {productsView} from "./views/products.js";
import {ranksView} from "./views/ranks.js";
import {scalingView} from "./views/scaling.js";
import {stepsView} from "./views/steps.js";
import {allTablesView, oneTableView} from "./views/tables.js";
import {timelineView} from "./views/timeline.js";

const groupsOfReport = () => [
  {title: "Overview", views: [answerView]},
  {title: "Network", views: [layersView, stepsView, timelineView, accountingView]},
  {title: "Libraries", views: [algorithmsView, layoutView, productsView, callersView]},
  {title: "Machine", views: [gpuView, kernelsView, copiesView, memoryView, ranksView, countersView]},
  {title: "Data", views: [environmentView, allTablesView, oneTableView]},
];

const groupsOfDiff = () => [
  {title: "Overview", views: [verdictView]},
  {title: "Changed rows", views: comparedViews()},
  {title: "Data", views: [sidesView, allTablesView, oneTableView]},
];

const groupsOfScaling = () => [
  {title: "Overview", views: [scalingView]},
  {title: "Data", views: [allTablesView, oneTableView]},
];

export function groupsOfViews() {
  const groups = {report: groupsOfReport, diff: groupsOfDiff, scaling: groupsOfScaling}[page().kind]();
  for (const {id, tables = []} of groups.flatMap((group) => group.views))
    for (const name of tables) viewOf.set(name, id);
  return groups;
}
