// The views of a page, in the order of the navigation.
//
// A view: id (of its link), title, lead (a sentence), missing() (why there is nothing to show; "": there is), render(section, rest of
// the address).
import {answerView} from "./views/answer.js";
import {layersView} from "./views/layers.js";
import {allTablesView, oneTableView} from "./views/tables.js";
import {timelineView} from "./views/timeline.js";

export function groupsOfViews() {
  return [
    {title: "Overview", views: [answerView]},
    {title: "Network", views: [layersView, timelineView]},
    {title: "Data", views: [allTablesView, oneTableView]},
  ];
}
